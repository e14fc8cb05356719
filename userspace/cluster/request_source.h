// SPDX-License-Identifier: Apache-2.0
// What RequestSender sends: a state machine without I/O that returns which request comes next and
// takes the answer, with the time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

struct KeyedRequest {
  std::string key;  // of the answer; at most one request of a key is under way
  kubernetes::OutgoingRequest http;
};

// Thread rule: one thread.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  // A request to send now; nothing: none is due. Its answer is passed to answered().
  [[nodiscard]] virtual std::optional<KeyedRequest> next(MonotonicTime now) = 0;
  // `failure`: there was no complete answer.
  virtual void answered(std::string_view key, const kubernetes::ResponseHead& head,
                        std::string_view body, const std::optional<Error>& failure,
                        MonotonicTime now) = 0;
  // When next() has a request without an answer before; nothing: not by time alone.
  [[nodiscard]] virtual std::optional<MonotonicTime> due() const = 0;
};

}  // namespace forestall::cluster
