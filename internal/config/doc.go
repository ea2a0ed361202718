// Package config fills a settings struct from, in rising order of weight,
// defaults, a TOML file, the environment and command-line flags. The struct is
// the only place where a setting is declared; keys, names of variables and
// flags, the printed configuration and the reference all come from its tags:
//
//	type SMTP struct {
//		Host     string        `koanf:"host" help:"mail server; empty shows mails instead of sending them"`
//		Port     int           `koanf:"port" default:"587" help:"its port"`
//		Password string        `koanf:"password" secret:"true" help:"its password"`
//		Timeout  time.Duration `koanf:"timeout" default:"10s" help:"how long one mail may take"`
//	}
//	type Settings struct {
//		SQL  string `koanf:"sql" default:"sqlite" secret:"url" help:"where the truth is kept"`
//		SMTP SMTP   `koanf:"smtp"`
//	}
//
// Here the port is port in the table smtp of the file, STOA_SMTP_PORT in the
// environment and --smtp-port among the flags. A secret may also be in a file
// whose name is in STOA_SMTP_PASSWORD_FILE.
//
// The tags:
//
//	koanf    the name; a field without it is no setting
//	default  the value when no source sets one, written as in the environment
//	zero     what 0 means, where it does not mean the default; added to help
//	help     one line for people
//	secret   "true": never printed; "url": printed without the password in it
//	enum     the values that are allowed, separated by commas
//
// The tag default is the only source of a default, and 0 has one rule: a number or
// duration of 0, and an empty enum, is the default, unless the tag zero says what
// else it is. Load keeps that rule for what operators write, and [Defaults] for
// structs that are made in code, so that Settings{} is what an operator who sets
// nothing gets, but for settings that 0 turns off. An empty text or list and false
// are values of their own.
//
// Fields are strings, booleans, numbers, time.Duration, anything with
// an UnmarshalText method, and slices of these. A struct with a tag is a table;
// an embedded struct without one adds its fields to its parent. A struct with a
// method Validate() error is asked once everything is filled in; it reports
// [Fault] values, joined, and they are shown with the place the value came from.
package config
