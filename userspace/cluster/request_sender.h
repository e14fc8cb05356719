// SPDX-License-Identifier: Apache-2.0
// Sends the requests of a RequestSource and passes their answers back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cluster/request_source.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

// Thread rule: the client's thread.
class RequestSender {
 public:
  // At most `requests_max` at the same time. All others outlive this.
  RequestSender(kubernetes::HttpClient& client, RequestSource& source, const Clock& clock,
                std::size_t requests_max,
                std::size_t answer_bytes_max = kubernetes::AnswerCollector::kBytesMax)
      : client_(client),
        source_(source),
        clock_(clock),
        requests_max_(requests_max),
        answer_bytes_max_(answer_bytes_max) {}
  RequestSender(const RequestSender&) = delete;
  RequestSender& operator=(const RequestSender&) = delete;
  ~RequestSender();

  // Takes answers and sends what is due. After HttpClient::advance().
  void advance();
  // When advance() would send something; nothing: not by time alone.
  [[nodiscard]] std::optional<MonotonicTime> due() const {
    return has_room() ? source_.due() : std::nullopt;
  }

 private:
  struct Sent {
    explicit Sent(std::size_t bytes_max) : answer(bytes_max) {}

    kubernetes::HttpClient::RequestId id = 0;
    kubernetes::AnswerCollector answer;
  };

  [[nodiscard]] bool has_room() const { return sent_.size() < requests_max_; }

  kubernetes::HttpClient& client_;
  RequestSource& source_;
  const Clock& clock_;
  const std::size_t requests_max_;
  const std::size_t answer_bytes_max_;
  std::map<std::string, std::unique_ptr<Sent>> sent_;  // by key
};

}  // namespace forestall::cluster
