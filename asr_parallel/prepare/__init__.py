"""From anybody's audio and transcripts to the manifests that the stages read: one small reader a form."""
