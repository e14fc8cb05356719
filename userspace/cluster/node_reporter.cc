// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_reporter.h"

#include <utility>

#include "kubernetes/api_status.h"
#include "kubernetes/url.h"

namespace forestall::cluster {
namespace {

constexpr Duration kReadLongest = std::chrono::seconds(10);

}  // namespace

void NodeReporter::set(const NodeCondition& report, MonotonicTime now) {
  if (wanted_ == report) return;
  wanted_ = report;
  read_again(now);
}

void NodeReporter::withdraw(MonotonicTime now) {
  wanted_ = NodeCondition{NodeCondition::Pressure::withdrawn, false};
  // The delay after a failure may be longer than the process lives.
  backoff_.reset();
  if (step_ == WriteStep::read && !sent_) not_before_ = now;
}

void NodeReporter::read_again(MonotonicTime now) {
  // A failed request keeps its delay.
  if (problem_.empty() && step_ == WriteStep::read && !sent_) not_before_ = now;
}

std::optional<KeyedRequest> NodeReporter::next(MonotonicTime now) {
  if (!has_work() || now < not_before_) return std::nullopt;
  kubernetes::OutgoingRequest request;
  request.longest = kReadLongest;
  if (step_ == WriteStep::read) {
    request.target = "/api/v1/nodes/" + kubernetes::percent_encoded(node_);
  } else if (step_ == WriteStep::change) {
    auto change = node_request(node_, object_, writing_, taint_, wall_());
    if (change) {
      request = *std::move(change);
    } else {
      step_ = WriteStep::condition;
    }
  }
  if (step_ == WriteStep::condition) {
    auto condition = condition_request(node_, object_, writing_, wall_());
    if (!condition) {
      written(now);
      return std::nullopt;
    }
    request = *std::move(condition);
  }
  sent_ = true;
  return KeyedRequest{"node", std::move(request)};
}

void NodeReporter::answered(std::string_view, const kubernetes::ResponseHead& head,
                            std::string_view body, const std::optional<Error>& failure,
                            MonotonicTime now) {
  sent_ = false;
  if (!failure && head.code >= 200 && head.code < 300) return accepted(body, now);
  if (failure) return failed(failure->text(), now);
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  if (status.is_without("nodes", node_)) object_ = {};
  failed(status.text(), now);
}

// The object is read again: it may have changed (422: the version of the test is another one).
void NodeReporter::failed(const std::string& problem, MonotonicTime now) {
  problem_ = kubernetes::bounded_text(problem);
  step_ = WriteStep::read;
  not_before_ = now + backoff_.next(chance_());
}

void NodeReporter::accepted(std::string_view body, MonotonicTime now) {
  if (step_ != WriteStep::read) {
    const Result<void> is_written = kubernetes::check_accepted(body);
    if (!is_written.ok()) return failed(is_written.error().text(), now);
  }
  switch (step_) {
    case WriteStep::read: {
      auto object = parse_node(body);
      if (!object) return failed(object.error().text(), now);
      object_ = *std::move(object);
      if (!found_) found_ = object_;
      not_before_ = now;
      if (!wanted_) return;
      writing_ = *wanted_;
      step_ = WriteStep::change;
      return;
    }
    case WriteStep::change: step_ = WriteStep::condition; return;
    case WriteStep::condition: return written(now);
  }
}

void NodeReporter::written(MonotonicTime now) {
  problem_.clear();
  backoff_.reset();
  reported_ = writing_;
  step_ = WriteStep::read;
  not_before_ = writing_ == *wanted_ ? now + kHeartbeat : now;
}

std::optional<MonotonicTime> NodeReporter::due() const {
  if (!has_work()) return std::nullopt;
  return not_before_;
}

bool NodeReporter::has_work() const {
  return !sent_ && (wanted_ || !found_);
}

}  // namespace forestall::cluster
