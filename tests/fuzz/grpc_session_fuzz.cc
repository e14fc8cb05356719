// SPDX-License-Identifier: Apache-2.0
// For any bytes of a client, in any pieces, a session stays within its limits: the number of calls,
// the size of messages, and no request to a finished call.
//
// The input: one byte for the size of the pieces, then what is sent after a valid greeting. A piece
// of size 0 sends no greeting.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "support/toy_service.h"
#include "wire/grpc_session.h"

namespace {

using namespace forestall;
using namespace forestall::wire;

// A service whose calls check their arguments.
class CheckingService final : public GrpcService {
 public:
  explicit CheckingService(std::size_t message_max) : message_max_(message_max) {}
  std::unique_ptr<GrpcCall> begin(std::string_view method, const GrpcPeer& peer) override {
    auto call = toys_.begin(method, peer);
    if (call == nullptr) return nullptr;
    return std::make_unique<Call>(std::move(call), message_max_);
  }
  [[nodiscard]] int news_fd() const override { return -1; }
  void take_news() override {}

 private:
  class Call final : public GrpcCall {
   public:
    Call(std::unique_ptr<GrpcCall> call, std::size_t message_max)
        : call_(std::move(call)), message_max_(message_max) {}
    void take(std::string_view message) override {
      if (message.size() > message_max_ || ended_) std::abort();
      call_->take(message);
    }
    void requests_end() override {
      if (ended_) std::abort();
      ended_ = true;
      call_->requests_end();
    }
    GrpcStep next() override {
      if (over_) std::abort();
      GrpcStep step = call_->next();
      over_ = step.over;
      return step;
    }

   private:
    const std::unique_ptr<GrpcCall> call_;
    const std::size_t message_max_;
    bool ended_ = false;
    bool over_ = false;
  };

  ToyService toys_;
  const std::size_t message_max_;
};

void converse(std::string_view input, std::size_t piece, bool greets) {
  GrpcLimits limits;
  limits.streams = 3;
  limits.message_bytes = 64;
  limits.header_bytes = 512;
  CheckingService service(limits.message_bytes);
  GrpcSession session(service, limits);
  std::size_t sent = 0;
  MonotonicTime now = from_ns(1);
  const auto take = [&](std::string_view bytes) {
    if (!session.receive(bytes, now)) return false;
    if (session.calls() > limits.streams) std::abort();
    for (std::string_view out = session.output(now); !out.empty(); out = session.output(now)) {
      sent += out.size();
      // A client that opens its window wide receives the flood that it requested.
      if (sent > (std::size_t{1} << 20)) return false;
    }
    return !session.over();
  };
  const std::string settings(9, '\0');
  std::string greeting = std::string(NGHTTP2_CLIENT_MAGIC) + settings;
  greeting[NGHTTP2_CLIENT_MAGIC_LEN + 3] = NGHTTP2_SETTINGS;
  if (greets && !take(greeting)) std::abort();
  while (!input.empty()) {
    if (!take(input.substr(0, piece))) return;
    input.remove_prefix(std::min(piece, input.size()));
  }
  session.resume(now);
  now += std::chrono::hours(1);
  session.expire(now);
  // A reset call is closed by its report.
  for (int i = 0; i < 1000 && !session.output(now).empty(); ++i) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = data[0];
  converse(input, piece == 0 ? 1 : piece, piece != 0);
  return 0;
}
