package api

// CheckinRequest checks the caller in for today: POST /v1/checkin. Words and minutes are those since the last
// check-in; an empty object is valid.
type CheckinRequest struct {
	Day     string `json:"day,omitempty" format:"date" doc:"date in the user's zone: today by default; yesterday is allowed for some minutes after midnight"`
	Words   int    `json:"words,omitempty" minimum:"0" maximum:"100000" doc:"words learned, or the quantity of the server's setting"`
	Minutes int    `json:"minutes,omitempty" minimum:"0" maximum:"1440" doc:"minutes studied, or the quantity of the server's setting"`
}

// CheckinStatus is a user's status today: GET /v1/checkin.
type CheckinStatus struct {
	Day       string `json:"day" format:"date" doc:"today in the user's zone, by the server's clock"`
	Today     bool   `json:"today" doc:"checked in today"`
	Yesterday bool   `json:"yesterday" doc:"checked in yesterday"`
	Streak    int    `json:"streak" doc:"consecutive days up to today or yesterday; 0 after a missed day"`
	Longest   int    `json:"longest" doc:"longest streak ever"`
	Total     int    `json:"total" doc:"days checked in"`

	Freezes     int `json:"freezes" doc:"streak freezes left"`
	FreezesUsed int `json:"freezes_used" doc:"streak freezes spent ever"`
}

// CheckinReply is the response to a check-in. It is sent when the check-in is durable.
type CheckinReply struct {
	New bool `json:"new" doc:"false if the user had already checked in today; then nothing changed"`
	At  Time `json:"at" doc:"time of today's check-in"`
	CheckinStatus
}

// Calendar contains the days of a month or a year: GET /v1/checkin/calendar/{year} and
// /v1/checkin/calendar/{year}/{month}.
type Calendar struct {
	Year    int      `json:"year"`
	Month   int      `json:"month,omitempty" doc:"1 to 12; absent for a whole year"`
	Days    []string `json:"days" example:"2026-11-20,2026-11-22" doc:"dates with a check-in, in order"`
	Covered []string `json:"covered" example:"2026-11-21" doc:"dates without a check-in that do not break the streak"`
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

	Names ActivityNames `json:"names" doc:"names of the two quantities, from the server's settings"`
}

// ActivityNames are the names of the two quantities of a check-in on this server.
type ActivityNames struct {
	Words   string `json:"words" example:"words"`
	Minutes string `json:"minutes" example:"minutes"`
}

// MakeupRequest checks the caller in for a missed day: POST /v1/checkin/makeup.
type MakeupRequest struct {
	Day string `json:"day" format:"date" doc:"a recent missed day; a covered day is refused"`
}

// MakeupReply is the response to a make-up. It is sent when the make-up is durable.
type MakeupReply struct {
	MadeUp Makeup        `json:"made_up"`
	Left   int           `json:"left" doc:"days that can still be made up this month"`
	Status CheckinStatus `json:"status" doc:"the user's status after it"`
}

// Makeup is one made-up day.
type Makeup struct {
	Day string `json:"day" format:"date"`
	At  Time   `json:"at" doc:"time of the make-up"`
}

// Makeups are the days that the caller may make up and has made up: GET /v1/checkin/makeup.
type Makeups struct {
	Left    int      `json:"left" doc:"days that can still be made up this month"`
	Limit   int      `json:"limit" doc:"largest number of days that can be made up in one month"`
	Days    []string `json:"days" example:"2026-11-20,2026-11-22" doc:"missed days that are recent enough to be made up, in order"`
	History []Makeup `json:"history" doc:"made-up days, newest first"`
	Next    string   `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// Board is a ranking: GET /v1/checkin/boards/{board}, where board is streak,
// total_days, week or month.
type Board struct {
	Board   string     `json:"board" example:"streak"`
	Season  string     `json:"season,omitempty" doc:"2026-W47 or 2026-11; absent for a board for all time"`
	Entries []BoardRow `json:"entries"`
	Me      *BoardRow  `json:"me,omitempty" doc:"the caller's own row; absent if not on the board"`
	Around  []BoardRow `json:"around,omitempty" doc:"the caller's neighbours and own row, if requested"`
}

// BoardRow is one place on a board. Of users with the same value, the one who reached it first ranks higher.
type BoardRow struct {
	Rank   int    `json:"rank" doc:"1 is the top"`
	User   string `json:"user,omitempty" example:"V1StGXR8_Z5j" doc:"absent if the caller may not see the user's name"`
	Name   string `json:"name,omitempty" example:"Ada" doc:"absent together with the id"`
	Avatar string `json:"avatar,omitempty" doc:"for GET /v1/avatars/{avatar}/{size}; absent without a picture or an id"`
	Value  int    `json:"value" doc:"days"`
}
