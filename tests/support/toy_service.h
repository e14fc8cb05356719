// SPDX-License-Identifier: Apache-2.0
// A service for tests of the server.
//   /t.T/Echo   returns each message
//   /t.T/Flood  messages of 1000 bytes without end
//   /t.T/Wait   waits until send() is called; then sends that to all
#pragma once

#include <sys/eventfd.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "wire/grpc_service.h"

namespace forestall::wire {

class ToyService final : public GrpcService {
 public:
  ToyService() : news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  std::unique_ptr<GrpcCall> begin(std::string_view method, const GrpcPeer&) override {
    if (method == "/t.T/Echo") return std::make_unique<Echo>();
    if (method == "/t.T/Flood") return std::make_unique<Flood>();
    if (method == "/t.T/Wait") return std::make_unique<Wait>(said_);
    return nullptr;
  }
  [[nodiscard]] int news_fd() const override { return news_.get(); }
  void take_news() override {
    eventfd_t ignored = 0;
    eventfd_read(news_.get(), &ignored);
    const std::lock_guard lock(mutex_);
    said_.insert(said_.end(), saying_.begin(), saying_.end());
    saying_.clear();
  }
  // Any thread.
  void send(const std::string& text) {
    const std::lock_guard lock(mutex_);
    saying_.push_back(text);
    eventfd_write(news_.get(), 1);
  }

 private:
  class Echo final : public GrpcCall {
   public:
    void take(std::string_view message) override { frame_ = make_frame(message); }
    void requests_end() override { ended_ = true; }
    GrpcStep next() override {
      if (frame_ != nullptr) return GrpcStep::message(std::exchange(frame_, nullptr));
      return ended_ ? GrpcStep::end() : GrpcStep::wait();
    }

   private:
    GrpcFrame frame_;
    bool ended_ = false;
  };
  class Flood final : public GrpcCall {
   public:
    void take(std::string_view) override { asked_ = true; }
    void requests_end() override {}
    GrpcStep next() override { return asked_ ? GrpcStep::message(frame_) : GrpcStep::wait(); }

   private:
    const GrpcFrame frame_ = make_frame(std::string(1000, 'x'));
    bool asked_ = false;
  };
  class Wait final : public GrpcCall {
   public:
    explicit Wait(const std::deque<std::string>& said) : said_(said), place_(said.size()) {}
    void take(std::string_view) override {}
    void requests_end() override {}
    GrpcStep next() override {
      if (place_ == said_.size()) return GrpcStep::wait();
      return GrpcStep::message(make_frame(said_[place_++]));
    }

   private:
    const std::deque<std::string>& said_;
    std::size_t place_;
  };

  const UniqueFd news_;
  std::deque<std::string> said_;  // the server thread's
  std::mutex mutex_;
  std::vector<std::string> saying_;
};

}  // namespace forestall::wire
