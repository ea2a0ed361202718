// Package client calls a Stoa server. It has one method for each route, and uses the types of package api.
//
//	c, err := client.New("https://stoa.example.org")
//	…
//	if _, err := c.Login(ctx, api.LoginRequest{Email: "ann@example.org", Password: "…"}); err != nil {
//		return err
//	}
//	day, err := c.Checkin(ctx, api.CheckinRequest{Words: 20})
//	switch {
//	case client.CodeOf(err) == "checkin.store_away": // the server's code of the error
//	case errors.Is(err, client.ErrUnreachable): // no server responded
//	}
//
// A client has the tokens of one device and renews them when they expire. A client is safe for concurrent use.
//
// The client sends a write again if the connection breaks. A write of a logged-in user has an Idempotency-Key, or a
// ClientID as in [Client.Send], so that it happens once for any number of tries. Only a code may be mailed twice, if the
// server dies before it responds.
//
// Calls before a log-in are also sent again, but no key protects them. After a lost response, Register, ResetPassword,
// UndoEmail and a log-in by a code may be refused (auth.code_wrong, auth.email_taken) although the first try succeeded.
// Login, LoginByJWT and VisitRoom may leave a session that no client uses. A call that still waits when its log-in ends
// returns the code client.logged_out.
//
// The possible refusals of each route are listed in docs/reference/routes.md. [Error] has the code, and [CodeOf]
// returns it. Times are UTC, durations of a medium milliseconds, sizes bytes.
//
// [Client.Socket] is a connection that delivers events and also calls operations. [Socket.Watch] subscribes it to a
// room or to a large group's chat. examples/bot is a program that uses one.
package client
