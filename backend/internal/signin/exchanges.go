package signin

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/time/rate"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// exchangesPerSecond and exchangesAtOnce are for networks of which no code was
	// refused lately, and once more for the others.
	exchangesPerSecond, exchangesAtOnce = 5, 20
	// refusedFor is how long lately is, and refusedMost how many networks are
	// remembered.
	refusedFor  = 10 * time.Minute
	refusedMost = 10_000
)

// Exchanges bounds how often the issuer is asked to take a code: anybody can make one up. Those
// from a network whose last code was not taken have a rate of their own, so that they keep
// nobody else from signing in.
type Exchanges struct {
	others, refused *rate.Limiter
	// networks are those whose last code was not taken, or not yet.
	networks *utilcache.LRUExpireCache
}

// NewExchanges allows five codes a second of each kind, and twenty at once.
func NewExchanges() *Exchanges {
	return &Exchanges{
		rate.NewLimiter(exchangesPerSecond, exchangesAtOnce), rate.NewLimiter(exchangesPerSecond, exchangesAtOnce),
		utilcache.NewLRUExpireCache(refusedMost),
	}
}

// begin says whether the issuer may be asked. Taken is called when it has taken the code.
func (e *Exchanges) begin(r *http.Request) (taken func(), ok bool) {
	if e == nil {
		return func() {}, true
	}
	from, limit := network(r), e.others
	if _, refused := e.networks.Get(from); refused {
		limit = e.refused
	}
	if !limit.Allow() {
		return nil, false
	}
	// Before it is asked: many may come at once.
	e.networks.Add(from, nil, refusedFor)
	return func() { e.networks.Remove(from) }, true
}

// network is where a request comes from, as far as that is known. Behind a proxy that ends TLS
// it is what the proxy says. Who speaks plain HTTP can make that up, too, and is then as
// good as a new network each time.
func network(r *http.Request) netip.Prefix {
	from := r.RemoteAddr
	if by, err := netip.ParseAddrPort(from); err == nil {
		from = by.Addr().String()
	}
	if said := r.Header.Values("X-Forwarded-For"); r.TLS == nil && len(said) > 0 {
		// Each proxy adds whom it was asked by.
		all := strings.Split(said[len(said)-1], ",")
		from = strings.TrimSpace(all[len(all)-1])
	}
	address, err := netip.ParseAddr(from)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits = 48 // what one customer may have
	}
	p, _ := address.Prefix(bits)
	return p
}
