// Package client calls a Stoa server: one method for each route, with the
// types of package api.
//
//	c, err := client.New("https://stoa.example.org")
//	…
//	if _, err := c.Login(ctx, api.LoginRequest{Email: "ann@example.org", Password: "…"}); err != nil {
//		return err
//	}
//	day, err := c.Checkin(ctx, api.CheckinRequest{Words: 20})
//	switch {
//	case client.CodeOf(err) == "checkin.store_away": // the server's own words for what is wrong
//	case errors.Is(err, client.ErrUnreachable): // no server answered
//	}
//
// A client holds the tokens of one device and renews them when they have run
// out. What writes in the name of somebody who is logged in carries an Idempotency-Key and is sent again when
// the connection breaks, so that it happens once however often it was sent; only a code
// may be mailed twice, where the server dies before it answers. What is called before a log-in is sent again as well, but without
// a key that counts: after a lost answer, Register, ResetPassword, UndoEmail and a log-in by a code may be refused (auth.code_wrong,
// auth.email_taken) though the first try was carried out, and Login, LoginByJWT and VisitRoom may leave a session that nobody has. What
// still waits when its log-in is over is refused: client.logged_out.
// A client is safe for concurrent use.
//
// What a call may be refused with is listed for its route in docs/reference/routes.md; [Error] has the code, and [CodeOf] returns it. Times
// are UTC, durations of a medium milliseconds, sizes bytes.
//
// [Client.Socket] is the connection over which events come and operations can be called, too; [Socket.Watch] has it
// bring those of a room or of a large group's chat. examples/bot is a program that lives on one.
package client
