"""The server: trained models over HTTP, in the words of OpenAI's API where it has some."""
