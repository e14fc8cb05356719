// SPDX-License-Identifier: Apache-2.0
// PID 1's socket of io.systemd.ManagedOOM, in a folder of its own.
#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "support/temp_tree.h"

namespace forestall::test {

// One client at a time; calls wait.
class FakeManagedOom {
 public:
  FakeManagedOom();

  [[nodiscard]] std::string path() const { return folder_ / "managed-oom"; }
  // Waits for the next client; its call, without the NUL.
  std::string accept();
  // A reply with elements, in JSON, and its NUL.
  void report(std::string_view elements) const;
  void send(std::string_view bytes) const;
  void hang_up() { client_.reset(); }

 private:
  TempTree folder_;
  UniqueFd listening_;
  UniqueFd client_;
};

}  // namespace forestall::test
