// SPDX-License-Identifier: Apache-2.0
// Several texts and numbers as one key of a hash table; different parts give different keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rebalance/selector.h"

namespace forestall::rebalance {

class TextKey {
 public:
  TextKey() { text_.reserve(kUsual); }

  void add(std::size_t number) {
    text_ += std::to_string(number);
    text_ += ':';
  }
  // With its size, so that the parts cannot be confused.
  void add(std::string_view text) {
    add(text.size());
    text_ += text;
  }
  void add(const std::vector<Requirement>& requirements) {
    add(requirements.size());
    for (const Requirement& each : requirements) {
      add(std::string_view(each.key));
      add(static_cast<std::size_t>(each.op));
      add(each.values.size());
      for (const std::string& value : each.values) add(std::string_view(value));
    }
  }

  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  static constexpr std::size_t kUsual = 128;

  std::string text_;
};

}  // namespace forestall::rebalance
