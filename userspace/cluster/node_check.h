// SPDX-License-Identifier: Apache-2.0
// Whether the API server has a node of the configured name. For a wrong name the list of its pods
// is empty, which is no fact about this node.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "kubernetes/backoff.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

// Thread rule: the client's thread.
class NodeCheck {
 public:
  // `client` and `clock` outlive this. `chance` returns numbers in [0, 1).
  NodeCheck(kubernetes::HttpClient& client, std::string node, const Clock& clock,
            std::function<double()> chance);
  NodeCheck(const NodeCheck&) = delete;
  NodeCheck& operator=(const NodeCheck&) = delete;
  ~NodeCheck();

  // Takes the answer, or sends the next request if it is due. After HttpClient::advance().
  void advance();
  [[nodiscard]] bool exists() const { return exists_; }
  // Why that is not known to be so; empty: no answer yet.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // When advance() sends a request; nothing: one is under way, or the node exists.
  [[nodiscard]] std::optional<MonotonicTime> due() const;

 private:
  void take();

  kubernetes::HttpClient& client_;
  const std::string node_;
  const Clock& clock_;
  const std::function<double()> chance_;
  std::optional<kubernetes::HttpClient::RequestId> request_;
  kubernetes::AnswerCollector answer_;
  MonotonicTime not_before_{};
  kubernetes::Backoff backoff_;
  std::string problem_;
  bool exists_ = false;
};

}  // namespace forestall::cluster
