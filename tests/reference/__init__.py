"""Plain transcriptions of the published algorithms, to be read beside the papers and compared with the fast ones."""
