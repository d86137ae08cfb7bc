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
