package redis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/rueidis"
)

// Credentials returns the user and the password for a connection that has just been made to the server at
// addr, host:port. An empty user is the server's default one, and two empty texts are no authentication.
type Credentials func(ctx context.Context, addr string) (user, password string, err error)

// loginAddr is the address of a connection's server, together with user and password: the address is all
// that the client library hands over when it asks for them.
type loginAddr struct {
	net.Addr
	user, password string
}

// authenticate has connections authenticated as their address says.
func authenticate(opt *rueidis.ClientOption) {
	opt.AuthCredentialsFn = func(at rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		by, _ := at.Address.(loginAddr)
		return rueidis.AuthCredentials{Username: by.user, Password: by.password}, nil
	}
}

// sentinels is the KeepAlive of the dialer for sentinels, whose password is in the URL. The client library dials them
// as it dials servers that have data, and that dialer is all by which a dial can be told apart.
const sentinels = pingEvery + 1

// credentials asks whose a connection is. It sends nothing.
func (ns *nodes) credentials(ctx context.Context, addr string, d *net.Dialer, c net.Conn) (net.Addr, error) {
	switch {
	case ns.who == nil:
		return c.RemoteAddr(), nil
	case d.KeepAlive == sentinels:
		return loginAddr{c.RemoteAddr(), ns.watchers.Username, ns.watchers.Password}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ns.patience)
	defer cancel()
	user, password, err := ns.who(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("the credentials for %s: %w", addr, err)
	}
	return loginAddr{c.RemoteAddr(), user, password}, nil
}
