package redis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/rueidis"
)

// Credentials returns the user and the password for a new connection to the server at addr, host:port. An empty user is
// the server's default user. Two empty strings mean no authentication.
type Credentials func(ctx context.Context, addr string) (user, password string, err error)

// loginAddr is the address of a connection's server, together with user and password, because the client library passes
// only the address when it asks for credentials.
type loginAddr struct {
	net.Addr
	user, password string
}

// authenticate makes connections authenticate with the credentials in their address.
func authenticate(opt *rueidis.ClientOption) {
	opt.AuthCredentialsFn = func(at rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		by, _ := at.Address.(loginAddr)
		return rueidis.AuthCredentials{Username: by.user, Password: by.password}, nil
	}
}

// sentinelKeepAlive is the KeepAlive of the dialer for sentinels, whose password is in the URL. The client library dials
// sentinels like data servers, and only the dialer distinguishes the two.
const sentinelKeepAlive = pingEvery + 1

// credentials gets the credentials of a connection. It sends nothing.
func (ns *nodes) credentials(ctx context.Context, addr string, d *net.Dialer, c net.Conn) (net.Addr, error) {
	switch {
	case ns.askCredentials == nil:
		return c.RemoteAddr(), nil
	case d.KeepAlive == sentinelKeepAlive:
		return loginAddr{c.RemoteAddr(), ns.sentinelOptions.Username, ns.sentinelOptions.Password}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ns.patience)
	defer cancel()
	user, password, err := ns.askCredentials(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", addr, err)
	}
	return loginAddr{c.RemoteAddr(), user, password}, nil
}
