"""A job of two steps: how many words there are of each length."""

from mrjob.job import MRJob
from mrjob.step import MRStep


class ChainJob(MRJob):
    def steps(self):
        return [
            MRStep(mapper=self.map_line, reducer=self.reduce_word),
            MRStep(mapper=self.map_length, reducer=self.reduce_length),
        ]

    def map_line(self, _, line):
        for word in line.split():
            yield word, 1

    def reduce_word(self, word, counts):
        self.increment_counter("chain", "words", 1)
        self.increment_counter("chain", "keys", 1)
        yield word, sum(counts)

    def map_length(self, word, _):
        yield len(word), 1

    def reduce_length(self, length, counts):
        self.increment_counter("chain", "keys", 1)
        yield length, sum(counts)


if __name__ == "__main__":
    ChainJob.run()
