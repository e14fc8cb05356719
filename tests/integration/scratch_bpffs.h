// SPDX-License-Identifier: Apache-2.0
// A bpffs for one test, in a mount namespace of the test process. Needs CAP_SYS_ADMIN.
#pragma once

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "support/own_mounts.h"
#include "support/temp_tree.h"

namespace forestall::test {

class ScratchBpffs {
 public:
  ScratchBpffs() : place_{{"bpf/", ""}}, point_(place_ / "bpf") {
    enter_own_mounts();
    if (::mount("bpf", point_.c_str(), "bpf", 0, "mode=0700") != 0) fail("mount bpf");
    make_directory("pins", 0700);
  }
  ScratchBpffs(const ScratchBpffs&) = delete;
  ScratchBpffs& operator=(const ScratchBpffs&) = delete;
  ~ScratchBpffs() { ::umount2(point_.c_str(), MNT_DETACH); }

  // The directory of the guard's pins.
  [[nodiscard]] std::string pins() const { return point_ + "/pins"; }
  // Names in it.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(pins())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::generic_category().message(errno));
  }
  void make_directory(const std::string& name, mode_t mode) const {
    if (::mkdir((point_ + "/" + name).c_str(), mode) != 0) fail("mkdir " + name);
  }

  TempTree place_;
  std::string point_;
};

}  // namespace forestall::test
