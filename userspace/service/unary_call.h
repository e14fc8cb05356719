// SPDX-License-Identifier: Apache-2.0
// A call with one message in each direction, whose answer is available immediately.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "wire/grpc_service.h"

namespace forestall::service {

template <typename Request, typename Response>
class UnaryCall final : public wire::GrpcCall {
 public:
  // Fills the response, or ends the call with another status.
  using Answer = std::function<wire::GrpcStep(const Request&, Response&)>;
  explicit UnaryCall(Answer answer) : answer_(std::move(answer)) {}

  void take(std::string_view message) override {
    if (++messages_ > 1 ||
        !request_.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      next_ =
          wire::GrpcStep::end(wire::GrpcStatus::invalid_argument,
                              "the request is not a valid " + Request::descriptor()->full_name());
    }
  }
  void requests_end() override {
    if (next_) return;
    if (messages_ == 0) {
      next_ = wire::GrpcStep::end(wire::GrpcStatus::invalid_argument, "the request is empty");
      return;
    }
    Response response;
    next_ = answer_(request_, response);
    if (!next_->over) next_->frame = wire::make_frame(response.SerializeAsString());
  }
  wire::GrpcStep next() override {
    if (!next_) return wire::GrpcStep::wait();
    return std::exchange(*next_, wire::GrpcStep::end());
  }

 private:
  const Answer answer_;
  Request request_;
  int messages_ = 0;
  std::optional<wire::GrpcStep> next_;
};

}  // namespace forestall::service
