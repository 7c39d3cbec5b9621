"""The benchmark of the field: de-duplication tools side by side on real text.

Modules, from the bottom: ``packages`` (the manifest), ``fetching``, ``archives``, ``licences``,
``texts``, ``documents`` (of one package), ``parts`` (files of a corpus), ``corpus``, ``describe``.
``choose`` and ``lock`` write the manifest. ``shingles`` and ``truth`` find the similar documents,
``quality`` compares that with what a tool kept; they share no code with mr_dedup.

``tools`` has the tools and their options, ``programs`` what users of libraries write,
``environments`` where each runs; ``inputs`` the forms of a corpus that they read, ``outcomes`` what
they kept; ``running`` the limits and the cost of a run, ``measure`` the rounds, ``results`` and
``page`` files and tables, ``quick`` the floors of quality.
"""
