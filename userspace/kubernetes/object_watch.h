// SPDX-License-Identifier: Apache-2.0
// Runs a ListWatch on an HttpClient.
#pragma once

#include <optional>

#include "base/clock.h"
#include "kubernetes/http_client.h"
#include "kubernetes/list_watch.h"

namespace forestall::kubernetes {

// Thread rule: the client's thread.
class ObjectWatch final : public HttpReceiver {
 public:
  // All outlive this.
  ObjectWatch(HttpClient& client, ListWatch& watch, const Clock& clock)
      : client_(client), watch_(watch), clock_(clock) {}
  ObjectWatch(const ObjectWatch&) = delete;
  ObjectWatch& operator=(const ObjectWatch&) = delete;
  ~ObjectWatch() override;

  // Cancels a request that takes too long and starts the next one, if it is due. Before and after
  // HttpClient::advance().
  void advance();
  // When advance() next has work without an answer.
  [[nodiscard]] MonotonicTime due() const { return watch_.due(); }

  void head(const ResponseHead& head) override { watch_.head(head, clock_.now()); }
  [[nodiscard]] bool body(std::string_view bytes) override {
    return watch_.body(bytes, clock_.now());
  }
  void end(const std::optional<Error>& failure) override;

 private:
  HttpClient& client_;
  ListWatch& watch_;
  const Clock& clock_;
  std::optional<HttpClient::RequestId> request_;
};

}  // namespace forestall::kubernetes
