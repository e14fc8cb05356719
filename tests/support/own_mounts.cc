// SPDX-License-Identifier: Apache-2.0
#include "support/own_mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/unique_fd.h"

namespace forestall::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::generic_category().message(errno));
}

void make_private() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("MS_PRIVATE");
}

bool is_same_directory(const char* one, const char* other) {
  struct stat a {};
  struct stat b {};
  if (::stat(one, &a) != 0 || ::stat(other, &b) != 0) fail("stat");
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Only a mount point can be made private, so a process whose root is none does it from the root of
// the namespace. It gets there because ".." ends at the root of a process only below that root.
void make_private_outside_of_chroot() {
  const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd before(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  char name[] = "/tmp/forestall-root-XXXXXX";
  if (!root || !before || ::mkdtemp(name) == nullptr) fail("chroot");
  const bool outside = ::chroot(name) == 0 && ::fchdir(root.get()) == 0;
  if (!outside) fail("chroot " + std::string(name));
  while (!is_same_directory(".", "..")) {
    if (::chdir("..") != 0) fail("chdir ..");
  }
  if (::chroot(".") != 0) fail("chroot .");
  make_private();
  const bool back = ::fchdir(root.get()) == 0 && ::chroot(".") == 0 && ::rmdir(name) == 0 &&
                    ::fchdir(before.get()) == 0;
  if (!back) fail("chroot back");
}

}  // namespace

void enter_own_mounts() {
  static const bool entered = [] {
    if (::unshare(CLONE_NEWNS) != 0) fail("unshare CLONE_NEWNS");
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) return true;
    if (errno != EINVAL) fail("MS_PRIVATE");
    make_private_outside_of_chroot();
    return true;
  }();
  (void)entered;
}

}  // namespace forestall::test
