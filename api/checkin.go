package api

// CheckinRequest checks the caller in for today: POST /v1/checkin. Words and
// minutes are what the user did since the last check-in; an empty object is fine.
type CheckinRequest struct {
	Day     string `json:"day,omitempty" format:"date" doc:"the day that is meant, by the server's clock in the user's zone: today, or yesterday for a few minutes after midnight; today when absent"`
	Words   int    `json:"words,omitempty" minimum:"0" maximum:"100000" doc:"words learned, or what the server's setting says"`
	Minutes int    `json:"minutes,omitempty" minimum:"0" maximum:"1440" doc:"minutes studied, or what the server's setting says"`
}

// CheckinStatus is where a user stands today: GET /v1/checkin.
type CheckinStatus struct {
	Day       string `json:"day" format:"date" doc:"today in the user's zone, by the server's clock"`
	Today     bool   `json:"today" doc:"checked in today"`
	Yesterday bool   `json:"yesterday" doc:"checked in yesterday"`
	Streak    int    `json:"streak" doc:"days in a row that end today or yesterday; 0 the moment a day is missed"`
	Longest   int    `json:"longest" doc:"longest streak ever"`
	Total     int    `json:"total" doc:"days checked in"`

	Freezes     int `json:"freezes" doc:"streak freezes left"`
	FreezesUsed int `json:"freezes_used" doc:"streak freezes spent ever"`
}

// CheckinReply answers a check-in. It is sent when the check-in is durable.
type CheckinReply struct {
	New bool `json:"new" doc:"false when the user had checked in today already; nothing was changed then"`
	At  Time `json:"at" doc:"when today's check-in was made"`
	CheckinStatus
}

// Calendar has the days of a month or a year:
// GET /v1/checkin/calendar/{year} and /v1/checkin/calendar/{year}/{month}.
type Calendar struct {
	Year    int      `json:"year"`
	Month   int      `json:"month,omitempty" doc:"1 to 12; absent for a whole year"`
	Days    []string `json:"days" example:"2026-11-20,2026-11-22" doc:"dates with a check-in, in order"`
	Covered []string `json:"covered" example:"2026-11-21" doc:"dates without one that do not break the streak"`
}

// CheckinStats are a user's figures over all time: GET /v1/checkin/stats.
type CheckinStats struct {
	Streak  int   `json:"streak"`
	Longest int   `json:"longest"`
	Total   int   `json:"total" doc:"days checked in"`
	Words   int64 `json:"words" doc:"words learned"`
	Minutes int64 `json:"minutes" doc:"minutes studied"`

	Freezes     int `json:"freezes" doc:"streak freezes left"`
	FreezesUsed int `json:"freezes_used" doc:"streak freezes spent ever"`

	Names ActivityNames `json:"names" doc:"what words and minutes count here, by the settings of the server"`
}

// ActivityNames say what the two numbers of a check-in count on this server.
type ActivityNames struct {
	Words   string `json:"words" example:"words"`
	Minutes string `json:"minutes" example:"minutes"`
}

// MakeupRequest checks the caller in for a missed day: POST /v1/checkin/makeup.
type MakeupRequest struct {
	Day string `json:"day" format:"date" doc:"a day that is over, neither signed nor covered, and not too long ago"`
}

// MakeupReply answers a make-up. It is sent when the make-up is durable.
type MakeupReply struct {
	MadeUp Makeup        `json:"made_up"`
	Left   int           `json:"left" doc:"days that can still be made up this month"`
	Status CheckinStatus `json:"status" doc:"where the user stands now"`
}

// Makeup is one day that was made up.
type Makeup struct {
	Day string `json:"day" format:"date"`
	At  Time   `json:"at" doc:"when it was made up"`
}

// Makeups say what the caller may make up and has made up:
// GET /v1/checkin/makeup.
type Makeups struct {
	Left    int      `json:"left" doc:"days that can still be made up this month"`
	Limit   int      `json:"limit" doc:"days that can be made up in one month"`
	Days    []string `json:"days" example:"2026-11-20,2026-11-22" doc:"missed days that are recent enough to be made up, in order"`
	History []Makeup `json:"history" doc:"days that were made up, the newest first"`
	Next    string   `json:"next,omitempty" doc:"cursor of the page after; absent at the end of the history"`
}

// Board is a ranking: GET /v1/checkin/boards/{board}, where board is streak,
// total_days, week or month.
type Board struct {
	Board   string     `json:"board" example:"streak"`
	Season  string     `json:"season,omitempty" doc:"2026-W47 or 2026-11; absent for a board for all time"`
	Entries []BoardRow `json:"entries"`
	Me      *BoardRow  `json:"me,omitempty" doc:"the caller's own row; absent when not on the board"`
	Around  []BoardRow `json:"around,omitempty" doc:"the caller's neighbours and own row, when asked for"`
}

// BoardRow is one place on a board. Whoever reached a value first stands before
// others with the same value.
type BoardRow struct {
	Rank   int    `json:"rank" doc:"1 is the top"`
	User   string `json:"user,omitempty" example:"V1StGXR8_Z5j" doc:"the user's id; absent for a user who is not shown to the caller by name"`
	Name   string `json:"name,omitempty" example:"Ada" doc:"absent together with the id"`
	Avatar string `json:"avatar,omitempty" doc:"the picture's id: GET /v1/avatars/{avatar}/{size}; absent where there is none, or no id"`
	Value  int    `json:"value" doc:"days"`
}
