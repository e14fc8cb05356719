// SPDX-License-Identifier: Apache-2.0
// Repeats one call on the socket of a running agent.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "wire/grpc_stream.h"

namespace forestall::cluster {

// Thread rule: one thread.
class AgentCallReader {
 public:
  struct Options {
    std::string socket;
    std::string method;   // "/forestall.v1.Agent/GetStatus"
    std::string request;  // as serialized
    Duration interval{};  // from the begin of a call to that of the next
    Duration longest{};   // of a call
  };

  // `clock` outlives this. `on_end` is called from advance() once for each call that began: with
  // the answer, or with nothing if there is none.
  AgentCallReader(Options options, const Clock& clock,
                  std::function<void(const std::string* answer)> on_end)
      : options_(std::move(options)), clock_(clock), on_end_(std::move(on_end)) {}

  // Begins a call if it is due, continues or ends it.
  void advance();
  // The answer has changed: the next call is due now.
  void make_due() { not_before_ = clock_.now(); }
  [[nodiscard]] bool under_way() const { return call_ != nullptr; }
  // What to poll for; fd -1: nothing.
  [[nodiscard]] pollfd poll() const;
  // When advance() next has work in any case.
  [[nodiscard]] MonotonicTime due() const { return call_ ? call_ends_ : not_before_; }

 private:
  void begin();

  const Options options_;
  const Clock& clock_;
  const std::function<void(const std::string*)> on_end_;
  std::unique_ptr<wire::GrpcStream> call_;
  MonotonicTime call_ends_{};  // at the latest
  MonotonicTime not_before_{};
};

}  // namespace forestall::cluster
