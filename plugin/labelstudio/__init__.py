"""Everything about Label Studio: its rules for templates, its server, its projects and its editor in pages of ours."""
