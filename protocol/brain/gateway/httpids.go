package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What is looked at in a POST before the library gets it: ids, as in ids.go. Here a large
// integer is refused, since the library writes the answer.

// idWait is how long a request waits for its id, which the end of another may be about to
// free: a client may use one id for one request after the other.
const idWait = time.Second

// sessionless is in requests of the protocol's newest version, which need no initialize.
const sessionless = "io.modelcontextprotocol/protocolVersion"

var errLargeID = errors.New("over HTTP an id is a string, or an integer below 2^53 in size")

// posted is what a POST has in it.
type posted struct {
	ids  []jsonrpc.ID // of requests
	drop bool         // all of it is notifications that mean nothing
	bare bool         // there is nothing in it that can begin a session
}

// look reads the ids in the body of r, which can be read again. What is no message is left
// to the library.
func (h *HTTP) look(r *http.Request) (posted, error) {
	var p posted
	body, err := io.ReadAll(io.LimitReader(r.Body, h.opts.MaxBodyBytes+1))
	rest := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	r.Body = rest
	if err != nil || int64(len(body)) > h.opts.MaxBodyBytes {
		return p, nil
	}
	all := []json.RawMessage{body}
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' {
		if json.Unmarshal(trimmed, &all) != nil {
			return p, nil
		}
	}
	dropped, begins := 0, 0
	for _, raw := range all {
		msg, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			return p, nil
		}
		cancelled, err := identify(msg, raw)
		q, request := msg.(*jsonrpc.Request)
		switch {
		case request && !q.IsCall() && q.Method == methodCancelled && (err != nil || isLarge(cancelled)):
			dropped++
		case err != nil:
			return p, err
		case request && isLarge(q.ID):
			return p, errLargeID
		case request && q.IsCall():
			p.ids = append(p.ids, q.ID)
			if q.Method == "initialize" {
				begins++
			}
		}
	}
	p.bare = begins == 0 && len(p.ids) > 0 && !bytes.Contains(body, []byte(sessionless))
	p.drop = dropped > 0 && dropped == len(all)
	return p, nil
}

func isLarge(id jsonrpc.ID) bool {
	s, ok := id.Raw().(string)
	return ok && strings.HasPrefix(s, largeID)
}

// claim takes ids for requests of v, until free is called; an error when one is in use.
func (h *HTTP) claim(r *http.Request, v *visit, ids []jsonrpc.ID) (free func(), err error) {
	done := make(chan struct{})
	var mine []jsonrpc.ID
	free = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, id := range mine {
			delete(v.ids, id)
		}
		close(done)
	}
	limit := time.NewTimer(idWait)
	defer limit.Stop()
	for _, id := range ids {
		for {
			h.mu.Lock()
			other := v.ids[id]
			if other == nil {
				if v.ids == nil {
					v.ids = map[jsonrpc.ID]<-chan struct{}{}
				}
				v.ids[id], mine = done, append(mine, id)
			}
			h.mu.Unlock()
			if other == nil {
				break
			}
			if other == (<-chan struct{})(done) {
				free()
				return nil, errors.New("two requests have the same id")
			}
			select {
			case <-other:
				continue
			case <-limit.C:
				err = fmt.Errorf("the id of a request (%v) is that of another that has no answer yet; it is not done", id.Raw())
			case <-r.Context().Done():
				err = r.Context().Err()
			}
			free()
			return nil, err
		}
	}
	return free, nil
}

// early answers a request that came before initialize.
func early(w http.ResponseWriter, id jsonrpc.ID) {
	raw, _ := encode(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a session begins with initialize; its answer has the header " + sessionHeader + " for what follows"}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(raw)
}

// refuse answers a POST that is not done. It has no id, so that it is not taken for the
// answer to another.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`, jsonrpc.CodeInvalidRequest, quote(err.Error()))
}
