// SPDX-License-Identifier: Apache-2.0
// A scanner whose scans end when the test requests it.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "agent/tree_scanner.h"
#include "support/descriptors_used_up.h"

namespace forestall::agent {

// Scans in start(), and hands the result over when the test requests it.
class HeldScanner final : public TreeScanner {
 public:
  [[nodiscard]] bool exists() const override { return true; }
  void start(std::unique_ptr<sources::HeldTree> tree) override {
    std::optional<test::DescriptorsUsedUp> none;
    if (without_descriptors) none.emplace();
    tree->refresh();
    scan_ = Scan{std::move(tree), {}};
  }
  [[nodiscard]] std::optional<Scan> finish() override {
    return over() ? std::exchange(scan_, std::nullopt) : std::nullopt;
  }
  [[nodiscard]] bool running() const { return scan_ && held; }
  [[nodiscard]] bool over() const { return scan_ && !held; }

  bool held = false;
  bool without_descriptors = false;

 private:
  std::optional<Scan> scan_;
};

}  // namespace forestall::agent
