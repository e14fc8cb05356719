// SPDX-License-Identifier: Apache-2.0
// A value that several owners share and none changes. Copies are cheap and comparisons are by
// value.
#pragma once

#include <memory>
#include <utility>

namespace forestall {

template <typename T>
class SharedValue {
 public:
  SharedValue() = default;
  SharedValue(T value) : value_(std::make_shared<const T>(std::move(value))) {}

  [[nodiscard]] explicit operator bool() const { return value_ != nullptr; }
  // REQUIRES: there is a value.
  [[nodiscard]] const T& operator*() const { return *value_; }
  [[nodiscard]] const T* operator->() const { return value_.get(); }
  void reset() { value_.reset(); }

  friend bool operator==(const SharedValue& a, const SharedValue& b) {
    return a.value_ == b.value_ || (a.value_ && b.value_ && *a.value_ == *b.value_);
  }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace forestall
