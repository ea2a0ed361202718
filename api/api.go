// Package api has the wire types of Stoa's HTTP interface, one file for each
// domain, for servers and clients alike. It imports the standard library only.
// Times are RFC 3339 in UTC with milliseconds ([Time]), dates are "2006-01-02", identifiers are 12-character
// nanoids, and lists end in a cursor when there is more.
package api

// Problem is the body of every refusal: an RFC 9457 problem document,
// "application/problem+json".
type Problem struct {
	Type   string         `json:"type" example:"about:blank#checkin.day_closed"`                                                              // a URI that names the problem; "about:blank#CODE"
	Title  string         `json:"title" example:"Conflict"`                                                                                   // the status in words
	Status int            `json:"status" example:"409"`                                                                                       // the HTTP status once more
	Detail string         `json:"detail,omitempty" example:"Check-in is for today, and for a few minutes after midnight for the day before."` // one sentence for people
	Code   string         `json:"code" example:"checkin.day_closed"`                                                                          // stable, for machines: "auth.bad_credentials"
	Errors []ProblemField `json:"errors,omitempty"`                                                                                           // what is wrong with which part of the input
}

// ProblemField points at one faulty part of the input. The rejected value
// itself is never repeated.
type ProblemField struct {
	Location string `json:"location" example:"body.zone"` // "body.zone"
	Message  string `json:"message" example:"expected length <= 64"`
}
