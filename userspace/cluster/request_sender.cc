// SPDX-License-Identifier: Apache-2.0
#include "cluster/request_sender.h"

#include <utility>

namespace forestall::cluster {

RequestSender::~RequestSender() {
  for (const auto& [key, sent] : sent_) client_.cancel(sent->id);
}

void RequestSender::advance() {
  for (auto each = sent_.begin(); each != sent_.end();) {
    const kubernetes::AnswerCollector& answer = each->second->answer;
    if (!answer.over()) {
      ++each;
      continue;
    }
    source_.answered(each->first, answer.head(), answer.text(), answer.failure(), clock_.now());
    each = sent_.erase(each);
  }
  while (has_room()) {
    const auto request = source_.next(clock_.now());
    if (!request) return;
    auto sent = std::make_unique<Sent>(answer_bytes_max_);
    const auto id = client_.start(request->http, sent->answer);
    if (!id) {
      source_.answered(request->key, {}, "", id.error(), clock_.now());
      continue;
    }
    sent->id = *id;
    // What had the key before ended and began again: its old answer is of no use.
    if (const auto old = sent_.find(request->key); old != sent_.end()) {
      client_.cancel(old->second->id);
      sent_.erase(old);
    }
    sent_[request->key] = std::move(sent);
  }
}

}  // namespace forestall::cluster
