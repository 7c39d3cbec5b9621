"""An index behind HTTP: for crawlers in any language, on this machine or on others."""
