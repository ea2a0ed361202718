// Package api defines the wire types of Stoa's HTTP interface for servers and clients, one file for each domain. It
// imports only the standard library. Times are RFC 3339 in UTC with milliseconds ([Time]), dates are "2006-01-02",
// and identifiers are 12-character nanoids. A list with more pages ends with a cursor.
package api

// Problem is the body of every refusal: an RFC 9457 problem document, "application/problem+json".
type Problem struct {
	// a URI that identifies the problem; "about:blank#CODE"
	Type   string `json:"type" example:"about:blank#checkin.day_closed"`
	Title  string `json:"title" example:"Conflict"`                                                        // the status in words
	Status int    `json:"status" example:"409"`                                                            // the HTTP status
	Detail string `json:"detail,omitempty" example:"Check-in for this day is closed. Check in for today."` // one sentence for people
	// stable, for machines: "auth.bad_credentials"
	Code   string         `json:"code" example:"checkin.day_closed"`
	Errors []ProblemField `json:"errors,omitempty"` // faults of parts of the input
}

// ProblemField describes the fault of one part of the input. It never contains the rejected value.
type ProblemField struct {
	Location string `json:"location" example:"body.zone"` // "body.zone"
	Message  string `json:"message" example:"expected length <= 64"`
}
