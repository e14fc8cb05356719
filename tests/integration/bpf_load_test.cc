// SPDX-License-Identifier: Apache-2.0
// What loading the BPF objects costs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "kernel/bpf_programs.h"
#include "kernel/kernel_types.h"
#include "kernel/memcg_scan.h"
#include "kernel/task_scan.h"

namespace forestall::test {
namespace {

// What this thread has read from files so far.
std::uintmax_t bytes_read() {
  std::ifstream file("/proc/thread-self/io");
  std::string name;
  std::uintmax_t bytes = 0;
  if (file >> name >> bytes && name == "rchar:") return bytes;
  throw std::runtime_error("/proc/thread-self/io without rchar");
}

// Each reading of all types costs as much as all programs of an object.
TEST(BpfLoadTest, ReadsTheKernelsTypesOnceForAllObjects) {
  const kernel::KernelTypes types;
  ASSERT_TRUE(types.valid());
  const std::uintmax_t before = bytes_read();
  ASSERT_TRUE(kernel::BpfPrograms::load({}, types).ok());
  EXPECT_TRUE(kernel::TaskScan::load(types).ok());
  static_cast<void>(kernel::MemcgScan::load(types));  // some hosts refuse it
  EXPECT_LT(bytes_read() - before, std::filesystem::file_size("/sys/kernel/btf/vmlinux"));
}

}  // namespace
}  // namespace forestall::test
