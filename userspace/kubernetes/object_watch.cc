// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/object_watch.h"

namespace forestall::kubernetes {

ObjectWatch::~ObjectWatch() {
  if (request_) client_.cancel(*request_);
}

void ObjectWatch::advance() {
  const MonotonicTime now = clock_.now();
  if (request_ && watch_.overdue(now)) {
    client_.cancel(*request_);
    request_.reset();
    watch_.end_overdue(now);
  }
  if (request_) return;
  const auto target = watch_.next(now);
  if (!target) return;
  OutgoingRequest request;
  request.target = *target;
  const auto started = client_.start(request, *this);
  if (started) {
    request_ = *started;
  } else {
    watch_.end(started.error(), now);
  }
}

void ObjectWatch::end(const std::optional<Error>& failure) {
  request_.reset();
  watch_.end(failure, clock_.now());
}

}  // namespace forestall::kubernetes
