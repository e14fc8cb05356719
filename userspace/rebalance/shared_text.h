// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace forestall::rebalance {

// A text that many evictions of a plan have in common: a copy has no memory of its own.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text)
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}

  [[nodiscard]] bool empty() const { return text_ == nullptr; }
  // Valid as long as some copy of the text.
  [[nodiscard]] std::string_view view() const {
    return empty() ? std::string_view() : std::string_view(*text_);
  }

  friend bool operator==(const SharedText& text, std::string_view other) {
    return text.view() == other;
  }

 private:
  std::shared_ptr<const std::string> text_;  // null: empty
};

}  // namespace forestall::rebalance
