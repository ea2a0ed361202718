DROP INDEX notices_expires{{on notices}}
