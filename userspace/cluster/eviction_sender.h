// SPDX-License-Identifier: Apache-2.0
// Sends the requests of Evictions and passes their answers back.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "cluster/evictions.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

// Thread rule: the client's thread.
class EvictionSender {
 public:
  // At the same time.
  static constexpr std::size_t kRequestsMax = 8;

  // All outlive this.
  EvictionSender(kubernetes::HttpClient& client, Evictions& evictions, const Clock& clock)
      : client_(client), evictions_(evictions), clock_(clock) {}
  EvictionSender(const EvictionSender&) = delete;
  EvictionSender& operator=(const EvictionSender&) = delete;
  ~EvictionSender();

  // Takes answers and sends what is due. After HttpClient::advance().
  void advance();
  // Whether advance() would send what is due.
  [[nodiscard]] bool has_room() const { return sent_.size() < kRequestsMax; }

 private:
  struct Sent {
    kubernetes::HttpClient::RequestId id = 0;
    kubernetes::AnswerCollector answer;
  };

  kubernetes::HttpClient& client_;
  Evictions& evictions_;
  const Clock& clock_;
  std::map<std::string, std::unique_ptr<Sent>> sent_;  // by UID
};

}  // namespace forestall::cluster
