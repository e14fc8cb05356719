// SPDX-License-Identifier: Apache-2.0
// What loading the BPF objects costs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "kernel/bpf_programs.h"
#include "kernel/kernel_types.h"
#include "kernel/memcg_scan.h"
#include "kernel/task_scan.h"

namespace forestall::test {
namespace {

constexpr const char* kTypesFile = "/sys/kernel/btf/vmlinux";

// Whether this process has opened the file with the kernel's types. libbpf reads the file, or maps
// it since version 1.6: only the open() is the same.
class TypesOpens {
 public:
  TypesOpens()
      : group_(
            ::fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_CLOEXEC)) {
    if (group_ &&
        ::fanotify_mark(group_.get(), FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, kTypesFile) != 0) {
      group_ = UniqueFd();
    }
  }

  [[nodiscard]] bool works() const { return static_cast<bool>(group_); }
  // Since the last call.
  [[nodiscard]] bool take() {
    bool opened = false;
    alignas(fanotify_event_metadata) std::array<char, 4096> buffer{};
    ssize_t size = 0;
    while ((size = ::read(group_.get(), buffer.data(), buffer.size())) > 0) {
      for (const char* next = buffer.data(); next < buffer.data() + size;) {
        fanotify_event_metadata event{};
        std::memcpy(&event, next, sizeof(event));
        const UniqueFd file(event.fd);
        opened = opened || event.pid == ::getpid();
        next += event.event_len;
      }
    }
    EXPECT_EQ(errno, EAGAIN);
    return opened;
  }

 private:
  UniqueFd group_;
};

// Each reading of all types costs as much as all programs of an object.
TEST(BpfLoadTest, ReadsTheKernelsTypesOnceForAllObjects) {
  TypesOpens opens;
  if (!opens.works()) GTEST_SKIP() << "not applicable: no fanotify; runs in all guests";
  const kernel::KernelTypes types;
  ASSERT_TRUE(types.valid());
  EXPECT_TRUE(opens.take());
  ASSERT_TRUE(kernel::BpfPrograms::load({}, types).ok());
  EXPECT_TRUE(kernel::TaskScan::load(types).ok());
  static_cast<void>(kernel::MemcgScan::load(types));  // some hosts refuse it
  EXPECT_FALSE(opens.take());
}

}  // namespace
}  // namespace forestall::test
