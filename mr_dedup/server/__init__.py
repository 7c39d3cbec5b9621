"""An index over HTTP, for crawlers in any language, on this machine or on others."""
