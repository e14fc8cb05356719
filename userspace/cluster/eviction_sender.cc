// SPDX-License-Identifier: Apache-2.0
#include "cluster/eviction_sender.h"

#include <utility>

namespace forestall::cluster {

EvictionSender::~EvictionSender() {
  for (const auto& [uid, sent] : sent_) client_.cancel(sent->id);
}

void EvictionSender::advance() {
  for (auto each = sent_.begin(); each != sent_.end();) {
    const kubernetes::AnswerCollector& answer = each->second->answer;
    if (!answer.over()) {
      ++each;
      continue;
    }
    evictions_.answered(each->first, answer.head(), answer.text(), answer.failure(), clock_.now());
    each = sent_.erase(each);
  }
  while (has_room()) {
    const auto request = evictions_.next(clock_.now());
    if (!request) return;
    auto sent = std::make_unique<Sent>();
    const auto id = client_.start(request->http, sent->answer);
    if (!id) {
      evictions_.answered(request->uid, {}, "", id.error(), clock_.now());
      continue;
    }
    sent->id = *id;
    // An eviction of the same UID that ended and began again: its old answer is of no use.
    if (const auto old = sent_.find(request->uid); old != sent_.end()) {
      client_.cancel(old->second->id);
      sent_.erase(old);
    }
    sent_[request->uid] = std::move(sent);
  }
}

}  // namespace forestall::cluster
