package media

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/pion/ice/v4"
)

// allAddresses opens the UDP port on each address of the machine, with one socket for each. So a response leaves from
// the address that got the request. Addresses may be added and removed later. It implements [ice.UDPMux] and is safe
// for concurrent use.
type allAddresses struct {
	port    int
	options []ice.UDPMuxFromPortOption
	log     *slog.Logger

	mu    sync.RWMutex
	open  map[string]*address // by IP
	fault string              // of the last check
}

// address is an address with an open port.
type address struct {
	ice.UDPMux
	missing bool // the machine did not have it at the last check
}

// listen opens the port on the addresses of the machine that accept allows.
func (a *allAddresses) listen(accept func(net.IP) bool) (*ice.MultiUDPMuxDefault, error) {
	return ice.NewMultiUDPMuxFromPort(a.port, append(slices.Clip(a.options), ice.UDPMuxFromPortWithIPFilter(accept))...)
}

// update opens the port on new addresses of the machine. It closes the port on addresses that were missing at two
// checks in a row, so that a short absence does not end sessions. The error is about addresses that refuse the port;
// the next check retries them.
func (a *allAddresses) update() error {
	present := map[string]bool{}
	if _, err := a.listen(func(ip net.IP) bool { present[ip.String()] = true; return false }); err != nil {
		return fmt.Errorf("media: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var fault error
	changed, causes, refused := false, map[string]error{}, map[string][]string{} // by the text of the cause
	for ip, open := range a.open {
		if !present[ip] && open.missing {
			fault, changed = errors.Join(fault, open.Close()), true
			delete(a.open, ip)
		}
		open.missing = !present[ip]
	}
	for _, ip := range slices.Sorted(maps.Keys(present)) {
		if a.open[ip] != nil {
			continue
		}
		mux, err := a.listen(func(other net.IP) bool { return other.String() == ip })
		if err != nil { // other addresses still work; for example, an IPv6 address may not be confirmed as unique yet
			if op, ok := errors.AsType[*net.OpError](err); ok {
				err = op.Err // without the address
			}
			causes[err.Error()], refused[err.Error()] = err, append(refused[err.Error()], ip)
		} else if len(mux.GetListenAddresses()) > 0 { // otherwise it was removed meanwhile
			a.open[ip], changed = &address{UDPMux: mux}, true
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(refused)) {
		addresses := refused[cause][0]
		if more := len(refused[cause]) - 1; more > 0 {
			addresses += fmt.Sprintf(" and %d more addresses", more)
		}
		fault = errors.Join(fault, fmt.Errorf("media: UDP port %d on %s: %w", a.port, addresses, causes[cause]))
	}
	if changed {
		a.logAddresses()
	}
	text := ""
	if fault != nil {
		text = fault.Error()
	}
	if text != "" && text != a.fault && len(a.open) > 0 {
		a.log.Warn("live: UDP port not open on some addresses", "err", fault)
	}
	a.fault = text
	return fault
}

// logAddresses logs the addresses with an open port. The caller holds a.mu.
func (a *allAddresses) logAddresses() {
	log, text := a.log.Warn, "live: UDP port open on local addresses only, no other address found"
	for ip := range a.open {
		if !net.ParseIP(ip).IsLoopback() {
			log, text = a.log.Info, "live: UDP port open"
		}
	}
	log(text, "addresses", fmt.Sprint(a.addresses()))
}

// addresses returns the addresses with an open port. The caller holds a.mu.
func (a *allAddresses) addresses() (all []net.Addr) {
	for _, ip := range slices.Sorted(maps.Keys(a.open)) {
		all = append(all, a.open[ip].GetListenAddresses()...)
	}
	return all
}

// GetListenAddresses implements [ice.UDPMux].
func (a *allAddresses) GetListenAddresses() []net.Addr {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.addresses()
}

// GetConn implements [ice.UDPMux].
func (a *allAddresses) GetConn(ufrag string, at net.Addr) (net.PacketConn, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if udp, ok := at.(*net.UDPAddr); ok && a.open[udp.IP.String()] != nil {
		return a.open[udp.IP.String()].GetConn(ufrag, at)
	}
	return nil, fmt.Errorf("media: the port is no longer open on %s", at)
}

// RemoveConnByUfrag implements [ice.UDPMux].
func (a *allAddresses) RemoveConnByUfrag(ufrag string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, open := range a.open {
		open.RemoveConnByUfrag(ufrag)
	}
}

// Close implements [ice.UDPMux].
func (a *allAddresses) Close() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, open := range a.open {
		err = errors.Join(err, open.Close())
	}
	return err
}
