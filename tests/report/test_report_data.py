"""Invalid data of a report."""

import numpy as np
import pytest

from mr_dedup.report.data import LargeCluster, Sample, Share, Totals
from tests.report.reports import report


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((7, 0, 4, {"a": 2}), "kept, dropped: 4 and 2 are not the 7 read"),
        ((1, 0, 2, {"a": -1}), r"dropped\['a'\] must be at least 0, not -1"),
        ((1, -1, 1, {}), "rejected must be at least 0, not -1"),
        ((2, 0, 1, {"a": 1}, 9, 2), "for_earlier: 2 of 1 dropped, for one of 9 earlier"),
        ((2, 0, 1, {"a": 1}, 0, 1), "for_earlier: 1 of 1 dropped, for one of 0 earlier"),
        ((2, 0, 2, {}, 1, 0, 4), "in_split_clusters: expected at most the 3 read and earlier"),
    ],
)
def test_contradicting_totals(numbers, said):
    with pytest.raises(ValueError, match=said):
        Totals(*numbers)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cluster_sizes": np.array([2, 1])}, "cluster_sizes: expected 2 and more, got 1"),
        ({"cluster_sizes": np.array([2.0])}, r"cluster_sizes: expected int64\[n\], got float64"),
        ({"distances": np.array([0, 65, 1], np.uint8)}, "distances: expected at most 64 bits"),
        ({"distances": np.array([0, 1], np.uint8)}, "distances: expected one for each of 3"),
        ({"similarities": np.array([0.5])}, "similarities: expected 3, got 1"),
        (
            {"similarities": np.array([0.5, 1.5, 0.1])},
            "similarities: expected 0 to 1, got 0.1 to 1",
        ),
        ({"fingerprints": np.array([1])}, r"fingerprints: expected uint64\[n\], got int64"),
        ({"shares": [("host", [Share("a", 1, 2)])]}, "shares: 2 of 1 for host 'a'"),
        ({"shares": [("host", [Share("a", 0, 0)])]}, "shares: 0 of 0 for host 'a'"),
        ({"largest": [LargeCluster(1, 2, 3, [])]}, "largest: 3 of 2 kept of cluster 1"),
        ({"samples": [Sample("a", "b", 65, None, "", "")]}, "samples: a distance of 65 bits"),
        ({"samples": [Sample("a", "b", 1, 1.1, "", "")]}, "samples: a similarity of 1.1"),
    ],
)
def test_invalid_data(changes, said):
    with pytest.raises(ValueError, match=said):
        report(**changes)
