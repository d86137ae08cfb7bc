package rpc

import "github.com/agent-executor/executor/protocol"

// Dialect translates method names for a peer that speaks another spelling of the
// protocol. The zero Dialect is the protocol's own names; the spellings of
// protocol.CanonicalName are understood in every dialect.
type Dialect struct {
	Subprotocol string            // what is offered in the handshake
	Names       map[string]string // the protocol's name → the dialect's
}

// BMA are the dialects of the bma executor API, newest first. Their names are the
// protocol's own.
func BMA() []Dialect {
	return []Dialect{{Subprotocol: protocol.DialectBMA11}, {Subprotocol: protocol.DialectBMA10}}
}

// Subprotocols are what an end with these dialects offers or understands: the
// protocol's own first.
func Subprotocols(dialects []Dialect) []string {
	names := []string{protocol.Version1}
	for _, d := range dialects {
		names = append(names, d.Subprotocol)
	}
	return names
}

// DialectOf is the one of the dialects that the two ends agreed on.
func DialectOf(dialects []Dialect, subprotocol string) Dialect {
	for _, d := range dialects {
		if d.Subprotocol == subprotocol {
			return d
		}
	}
	return Dialect{Subprotocol: protocol.Version1}
}

func (d Dialect) outbound(name string) string {
	if other, ok := d.Names[name]; ok {
		return other
	}
	return name
}

func (d Dialect) inbound(name string) string {
	if d.Names == nil {
		return name
	}
	for ours, theirs := range d.Names {
		if theirs == name {
			return ours
		}
	}
	return name
}
