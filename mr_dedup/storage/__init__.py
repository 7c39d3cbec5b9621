"""Files by URI: in object stores, HDFS and on web servers."""
