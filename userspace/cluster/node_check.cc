// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_check.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/printable.h"
#include "kubernetes/api_status.h"
#include "kubernetes/url.h"

namespace forestall::cluster {
namespace {

constexpr Duration kNodeAnswerLongest = std::chrono::seconds(10);

}  // namespace

NodeCheck::NodeCheck(kubernetes::HttpClient& client, std::string node, const Clock& clock,
                     std::function<double()> chance)
    : client_(client), node_(std::move(node)), clock_(clock), chance_(std::move(chance)) {}

NodeCheck::~NodeCheck() {
  if (request_) client_.cancel(*request_);
}

void NodeCheck::advance() {
  if (exists_) return;
  if (request_) {
    if (!answer_.over()) return;
    request_.reset();
    take();
  }
  const MonotonicTime now = clock_.now();
  if (exists_ || now < not_before_) return;
  kubernetes::OutgoingRequest request;
  request.target = "/api/v1/nodes/" + kubernetes::percent_encoded(node_);
  request.longest = kNodeAnswerLongest;
  answer_ = {};
  const auto started = client_.start(request, answer_);
  if (started) {
    request_ = *started;
    return;
  }
  problem_ = kubernetes::bounded_text(started.error().text());
  not_before_ = now + backoff_.next(chance_());
}

void NodeCheck::take() {
  const int code = answer_.head().code;
  if (code == 200) {
    exists_ = true;
    problem_.clear();
    return;
  }
  if (code == 404) {
    problem_ = fmt::format("the API server has no node '{}'; correct --node or NODE_NAME",
                           printable(node_));
  } else if (answer_.failure()) {
    problem_ = kubernetes::bounded_text(answer_.failure()->text());
  } else {
    problem_ =
        "the node cannot be read: " + kubernetes::parse_api_status(code, answer_.text()).text();
  }
  not_before_ = clock_.now() + backoff_.next(chance_());
}

std::optional<MonotonicTime> NodeCheck::due() const {
  if (exists_ || request_) return std::nullopt;
  return not_before_;
}

}  // namespace forestall::cluster
