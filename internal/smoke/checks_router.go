package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
)

// FaultRouterEnds names a router that is gone while, or after, it passes answers on.
const FaultRouterEnds = "router-ends"

// routerCheck: llama-server without a model, a router, starts itself once more for a model of its
// folder when a completion asks for it, passes so many answers on (20), says that the model is
// loaded, and ends at one SIGTERM.
func routerCheck(a *args) step {
	limit := a.duration("within", 10*time.Second)
	n, times := a.number("n_predict", 8, 1), a.number("requests", 20, 1)
	typ := a.modelType()
	return func(ctx context.Context, s *session) (out outcome, err error) {
		model, err := s.model(ctx, typ, 0)
		if err != nil {
			return outcome{}, err
		}
		dir, err := os.MkdirTemp(s.o.Work, "router-")
		if err != nil {
			return outcome{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		s.stop(ctx)
		var loaded time.Duration
		c := config{model: model, models: dir}
		end, err := s.stopOne(ctx, c, limit, false, func(srv *server, ctx context.Context) error {
			const prompt = "The quick brown fox"
			req := completionRequest(prompt, n, false)
			req["model"] = srv.alias
			began := time.Now()
			for range times {
				if _, err := srv.completeWith(ctx, req, prompt, n); err != nil {
					return srv.gone(err)
				}
				if loaded == 0 {
					loaded = time.Since(began)
				}
			}
			return srv.gone(srv.routes(ctx))
		})
		if err != nil {
			return outcome{}, err
		}
		return outcome{
			detail: fmt.Sprintf("a server of its own was started for the model, and answered after %v; %d answers came; the "+
				"router ended after %v", round(loaded), times, round(end.took)),
			figures: map[string]any{"answer_seconds": seconds(loaded), "stop_seconds": seconds(end.took)},
		}, nil
	}
}

// gone gives the fault of a server that has ended by itself its name.
func (srv *server) gone(err error) error {
	if f := new(fault); errors.As(err, &f) && srv.dies() {
		f.name = FaultRouterEnds
	}
	return err
}

// routes asks a router whether it has loaded the model that it was asked for.
func (srv *server) routes(ctx context.Context) error {
	status, body, err := srv.call(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return srv.fault("GET /v1/models: %v", err)
	}
	var got struct {
		Data []struct {
			ID     string
			Status struct{ Value string }
		}
	}
	if err := json.Unmarshal(body, &got); status != http.StatusOK || err != nil {
		return srv.fault("GET /v1/models gave %d with %s", status, llamaserver.Quote(body))
	}
	for _, m := range got.Data {
		if m.ID == srv.alias && m.Status.Value == "loaded" {
			return nil
		}
	}
	return srv.fault("the model was answered for, and GET /v1/models does not say that it is loaded: %s",
		llamaserver.Quote(body))
}
