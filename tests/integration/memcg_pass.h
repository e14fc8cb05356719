// SPDX-License-Identifier: Apache-2.0
// What tests of the pass over all cgroups share: the pass, what the files show, and memory of all
// kinds.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernel/memcg_scan.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

// What the files show.
struct Files {
  Bytes usage, inactive_file, anon, shmem;
};

class MemcgScanTest : public testing::Test {
 protected:
  MemcgScanTest() {
    auto loaded = kernel::MemcgScan::load();
    if (loaded.ok()) {
      scan_ = std::move(*loaded);
    } else if (loaded.error().code == EPERM) {
      refused_ = loaded.error().text();
    } else {
      throw std::runtime_error(loaded.error().text());
    }
  }
  // Some hosts refuse iterators of map elements alone; the agent then reads files.
  void SetUp() override {
    if (!scan_) GTEST_SKIP() << "not applicable: " << refused_ << "; runs in the guests";
  }

  [[nodiscard]] CgroupId id(const std::string& path) const {
    struct stat status {};
    if (::stat(groups_.directory(path).c_str(), &status) != 0) throw std::runtime_error(path);
    return CgroupId{status.st_ino};
  }

  std::optional<kernel::MemcgUsage> pass(CgroupId cgroup) {
    const auto done = scan_->scan({.counters = true});
    EXPECT_TRUE(done.ok()) << done.error().text();
    const kernel::MemcgUsage* found = scan_->find(cgroup);
    if (found == nullptr) return std::nullopt;
    return *found;
  }
  kernel::MemcgUsage pass(const std::string& path) {
    const auto found = pass(id(path));
    EXPECT_TRUE(found) << path;
    return found.value_or(kernel::MemcgUsage());
  }

  [[nodiscard]] Files files(const std::string& path) const {
    const bool v1 = mounts().v1;
    std::istringstream stat(groups_.read(path, "memory.stat"));
    Files all{groups_.usage(path), {}, {}, {}};
    std::string name;
    for (std::int64_t value = 0; stat >> name >> value;) {
      if (name == (v1 ? "total_inactive_file" : "inactive_file")) all.inactive_file = Bytes{value};
      if (name == (v1 ? "total_rss" : "anon")) all.anon = Bytes{value};
      if (name == (v1 ? "total_shmem" : "shmem")) all.shmem = Bytes{value};
    }
    return all;
  }

  // A process in the group that holds anonymous and shared memory and has read `file`.
  Child holder(const std::string& path, Bytes anon, Bytes shared, const std::string& file) {
    return Child([=, this] {
      groups_.add(path, ::getpid());
      const int memory = ::memfd_create("shared", MFD_CLOEXEC);
      std::vector<char> block(static_cast<std::size_t>(mib(1).count), 1);
      for (Bytes done{0}; done < shared; done = done + mib(1)) {
        if (::write(memory, block.data(), block.size()) < 0) return 1;
      }
      const int input = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
      while (::read(input, block.data(), block.size()) > 0) {
      }
      std::vector<char> held(static_cast<std::size_t>(anon.count), 1);
      for (;;) ::pause();
      return held.empty() ? 1 : 0;
    });
  }

  // The processes there. Again, if they changed meanwhile.
  Result<std::vector<kernel::ListedProcess>> list(CgroupId cgroup) {
    const auto version = mounts().v1 ? kernel::CgroupVersion::v1 : kernel::CgroupVersion::v2;
    auto listed = scan_->processes_in(cgroup, version);
    return listed.ok() ? listed : scan_->processes_in(cgroup, version);
  }

  ScratchCgroup groups_;
  std::unique_ptr<kernel::MemcgScan> scan_;
  std::string refused_;  // why there is none
};

// A file whose pages are in no cgroup yet.
class UnreadFile {
 public:
  explicit UnreadFile(Bytes size)
      : path_(std::filesystem::temp_directory_path() /
              ("forestall-pages-" + std::to_string(::getpid()))) {
    const std::vector<char> block(static_cast<std::size_t>(size.count), 'x');
    std::ofstream(path_).write(block.data(), size.count);
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
  UnreadFile(const UnreadFile&) = delete;
  UnreadFile& operator=(const UnreadFile&) = delete;
  ~UnreadFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace forestall::test
