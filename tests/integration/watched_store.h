// SPDX-License-Identifier: Apache-2.0
// A store of guards that can refuse a part.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/guard_store.h"
#include "kernel/pin_directory.h"

namespace forestall::test {

// Keeps in a directory of pins, and notes what is dropped by the test's own thread.
class WatchedStore final : public kernel::GuardStore {
 public:
  explicit WatchedStore(kernel::PinDirectory& pins) : pins_(pins) {}
  void refuse(const std::string& part) { refused_ = part; }
  [[nodiscard]] int dropped_here() const { return dropped_here_; }

  Result<std::vector<kernel::KeptObject>> kept() override { return pins_.kept(); }
  Result<void> keep(const std::string& name, int fd) override {
    if (!refused_.empty() && name.ends_with(refused_)) return error("no room for " + name);
    return pins_.keep(name, fd);
  }
  Result<void> drop(const std::string& name) override {
    if (std::this_thread::get_id() == test_) ++dropped_here_;
    return pins_.drop(name);
  }
  Result<std::vector<std::string>> names() const override { return pins_.names(); }
  kernel::StoreRoom room() const override { return pins_.room(); }
  std::string place() const override { return pins_.place(); }
  UniqueFd turn() const override { return pins_.turn(); }

 private:
  kernel::PinDirectory& pins_;
  std::string refused_;
  const std::thread::id test_ = std::this_thread::get_id();
  int dropped_here_ = 0;
};

}  // namespace forestall::test
