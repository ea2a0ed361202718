package cli

// liveKeys are the subcommands of "stoa keys" that look after what a Redis holds.
type liveKeys struct{}

// settingsOf are the settings of the subcommands.
func (r *liveKeys) settingsOf() []*settings { return nil }
