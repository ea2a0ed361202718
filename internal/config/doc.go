// Package config fills a settings struct from defaults, a TOML file, the environment and command-line flags; later
// sources take precedence. The struct is the only declaration of a setting: keys, names of variables and flags, the
// printed configuration and the reference all come from its tags:
//
//	type SMTP struct {
//		Host     string        `koanf:"host" help:"mail server; empty shows mails instead of sending them"`
//		Port     int           `koanf:"port" default:"587" help:"its port"`
//		Password string        `koanf:"password" secret:"true" help:"its password"`
//		Timeout  time.Duration `koanf:"timeout" default:"10s" help:"time limit of one mail"`
//	}
//	type Settings struct {
//		SQL  string `koanf:"sql" default:"sqlite" secret:"url" help:"the database"`
//		SMTP SMTP   `koanf:"smtp"`
//	}
//
// Here the port is port in the table smtp of the file, STOA_SMTP_PORT in the environment and --smtp-port among the
// flags. A secret may also be in a file whose name is in STOA_SMTP_PASSWORD_FILE.
//
// The tags:
//
//	koanf    the name; a field without it is not a setting
//	default  the value if no source sets one, written as in the environment
//	zero     the meaning of 0, if it is not the default; it is appended to help
//	help     one line for people
//	secret   "true": never printed; "url": printed without its password
//	enum     the allowed values, separated by commas
//
// The tag default is the only source of a default. A number or duration of 0, and an empty enum, mean the default,
// unless the tag zero gives another meaning. Load applies this rule to the sources, and [Defaults] applies it to
// structs that are made in code. So Settings{} equals the configuration of an operator who sets nothing, except for
// settings that 0 turns off. An empty text or list and false are values of their own.
//
// Fields are strings, booleans, numbers, time.Duration, types with an UnmarshalText method, and slices of these. A
// struct with a tag is a table; an embedded struct without one adds its fields to its parent. If a struct has a
// method Validate() error, Load calls it after all fields are set. The method reports [Fault] values, joined, and
// Load adds the origin of each value.
package config
