#include "common/trust/trust_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/base/files.h"

namespace forebay {
namespace {

constexpr std::string_view kAuthorities = "ca.pem";
constexpr std::string_view kAuthorityKey = "ca.key";
constexpr std::string_view kLifetime = "member_lifetime";
constexpr std::string_view kActions = "actions";
constexpr std::string_view kNextKey = "ca.next.key";
constexpr std::string_view kRevoked = "revoked";
constexpr std::size_t kLongestKeyFile = std::size_t{16} * 1024;  // with a certificate

Error OfErrno(const std::string& path) {
  const int error = errno;
  const Code code = error == EACCES || error == EPERM || error == ELOOP ? Code::kDenied
                    : error == ENOENT                                   ? Code::kNotFound
                                                                        : Code::kInternal;
  return Error{code, "cannot read " + path + ": " + std::generic_category().message(error)};
}

/// A file that nobody else may read. Root, whom nothing is hidden from, uses a service's, too.
Result<Secret> ReadPrivateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return Fail(OfErrno(path));
  struct stat info{};
  std::string bytes(kLongestKeyFile, '\0');
  const bool looked = fstat(fd, &info) == 0;
  const ssize_t size = looked ? read(fd, bytes.data(), bytes.size()) : -1;
  const Error failed = OfErrno(path);
  close(fd);
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  Secret text(std::move(bytes));
  if (size < 0) return Fail(failed);
  const bool ours = info.st_uid == geteuid() || geteuid() == 0;
  if (!ours || (info.st_mode & 0077) != 0) {
    return Fail(Code::kDenied,
                path + " must belong to this user and be readable by nobody else: chmod 600 it");
  }
  return text;
}

}  // namespace

Result<bool> TrustFolder::Exists() const {
  if (path_.empty()) return false;
  struct stat info{};
  if (stat(At(kAuthorities).c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return Fail(
      OfErrno(At(kAuthorities))
          .Within("whether this machine belongs to a cluster cannot be seen (--trust-dir)"));
}

Result<std::vector<Certificate>> TrustFolder::LoadAuthorities() const {
  const std::string file = At(kAuthorities);
  Result<std::string> text = ReadWholeFile(file);
  if (!text) return Fail(text.error());
  Result<std::vector<Certificate>> all = Certificate::AllFromPem(*text);
  if (!all) return Fail(all.error().Within(file));
  return all;
}

Result<PrivateKey> TrustFolder::LoadKey(const std::string& file) const {
  Result<Secret> text = ReadPrivateFile(file);
  if (!text) return Fail(text.error());
  Result<PrivateKey> key = PrivateKey::FromPem(*text);
  if (!key) return Fail(key.error().Within(file));
  return key;
}

Result<Certificate> TrustFolder::LoadCertificate(proto::Role role) const {
  const std::string file = At(std::string(RoleWord(role)) + ".pem");
  Result<std::string> text = ReadWholeFile(file);
  if (!text) return Fail(text.error());
  Result<Certificate> certificate = Certificate::FromPem(*text);
  if (!certificate) return Fail(certificate.error().Within(file));
  return certificate;
}

Result<MemberProof> TrustFolder::Load(proto::Role role) const {
  Result<std::vector<Certificate>> authorities = LoadAuthorities();
  if (!authorities) return Fail(authorities.error());
  const std::string word(RoleWord(role));
  const std::string file = At(word + ".pem");
  Result<Certificate> certificate = LoadCertificate(role);
  if (!certificate && certificate.error().code == Code::kNotFound) {
    const std::string article = role == proto::ROLE_ADMIN ? "an " : "a ";
    return Fail(Code::kInvalid, "this machine belongs to a cluster, and has no certificate of " +
                                    article + word + " (" + file +
                                    "): get one with 'forebay join HOST:PORT --token T' and a "
                                    "token for that role");
  }
  if (!certificate) return Fail(certificate.error());
  const std::string key_file = At(word + ".key");
  Result<Secret> pair = ReadPrivateFile(key_file);
  if (!pair) return Fail(pair.error());
  Result<PrivateKey> key = PrivateKey::FromPem(*pair);
  if (!key) return Fail(key.error().Within(key_file));
  if (!certificate->Fits(*key)) {
    // Save was interrupted behind the key's file.
    Result<Certificate> beside = Certificate::FromPem(pair->Reveal());
    if (beside && beside->Fits(*key)) certificate = std::move(beside);
  }
  if (!certificate->Fits(*key))
    return Fail(Code::kInvalid, file + " does not belong to its key: join again");
  Result<Identity> self = certificate->Member();
  if (!self) return Fail(self.error().Within(file));
  if (self->role != role)
    return Fail(Code::kInvalid, file + " is the certificate of " + NameOf(*self) + ": join again");
  return MemberProof{.authorities = std::move(*authorities),
                     .certificate = *certificate,
                     .key = *key,
                     .self = std::move(*self)};
}

Status TrustFolder::CheckWritable() const {
  std::error_code error;
  std::filesystem::path nearest = std::filesystem::absolute(path_, error);
  while (access(nearest.c_str(), F_OK) != 0 && errno == ENOENT && nearest.has_relative_path())
    nearest = nearest.parent_path();
  struct stat info{};
  const bool found = stat(nearest.c_str(), &info) == 0;
  if (found) errno = ENOTDIR;
  const bool is_folder = found && S_ISDIR(info.st_mode);
  if (is_folder && access(nearest.c_str(), W_OK | X_OK) == 0) return {};
  const int why = errno;
  const Code code = why == EACCES || why == EPERM || why == EROFS ? Code::kDenied : Code::kInvalid;
  return Fail(code, "certificates cannot be kept in " + path_ + ": " + nearest.string() +
                        " is no folder that this user can write (" +
                        std::generic_category().message(why) + ")");
}

Status TrustFolder::Write(const std::string& file, std::string_view bytes) const {
  struct stat folder{};
  if (geteuid() != 0 || stat(path_.c_str(), &folder) != 0 || folder.st_uid == 0)
    return WriteFileAtomically(file, bytes);
  const std::string ours = file + ".new";
  Status written = WriteFileAtomically(ours, bytes);
  if (!written) return written;
  if (chown(ours.c_str(), folder.st_uid, folder.st_gid) != 0) return Fail(OfErrno(ours));
  return CommitFile(ours, file);
}

Status TrustFolder::SaveAuthorities(const std::vector<Certificate>& authorities) const {
  const std::string text = PemOf(authorities);
  const Result<std::string> before = ReadWholeFile(At(kAuthorities));
  return before && *before == text ? Status() : Write(At(kAuthorities), text);
}

Status TrustFolder::Save(const MemberProof& member) const {
  Status made = MakePrivateFolder(path_);
  if (!made) return made;
  const std::string word(RoleWord(member.self.role));
  const std::string certificate = member.certificate.ToPem();
  // Whom to believe comes first, so that no certificate lies beside an authority that is not its
  // own; where there is no member yet it comes last, and until then there is none. Under umask
  // 077, as all files of ours.
  struct stat known{};
  const bool first = stat(At(kAuthorities).c_str(), &known) != 0;
  Status written = first ? Status() : SaveAuthorities(member.authorities);
  if (written) {
    const Secret pair(std::string(member.key.ToPem().Reveal()) + certificate);
    written = Write(At(word + ".key"), pair.Reveal());
  }
  if (written) written = Write(At(word + ".pem"), certificate);
  if (written && first) written = SaveAuthorities(member.authorities);
  return written;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

Result<FolderLock> TrustFolder::Lock() const { return LockBy(LOCK_EX); }
Result<FolderLock> TrustFolder::TryLock() const { return LockBy(LOCK_EX | LOCK_NB); }

Result<FolderLock> TrustFolder::LockBy(int way) const {
  const std::string file = At("lock");
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    const Error why = OfErrno(file);
    return Fail(why.code, why.message + ": this program's user must be able to write there");
  }
  FolderLock lock(fd);
  struct stat folder{};
  // What root makes must not lock out the owner.
  const bool ours = geteuid() != 0 || (stat(path_.c_str(), &folder) == 0 &&
                                       fchown(fd, folder.st_uid, folder.st_gid) == 0);
  if (!ours) return Fail(OfErrno(file));
  if (flock(fd, way) == 0) return lock;
  if (errno == EWOULDBLOCK) return Fail(Code::kOverloaded, file + " is held by another program");
  return Fail(OfErrno(file));
}

Result<std::vector<Revocation>> TrustFolder::LoadRevoked() const {
  const Result<std::string> text = ReadWholeFile(At(kRevoked));
  if (!text && text.error().code == Code::kNotFound) return std::vector<Revocation>();
  if (!text) return Fail(text.error());
  Result<std::vector<Revocation>> revoked = RevocationsOf(*text);
  if (!revoked) {
    return Fail(Code::kInvalid, At(kRevoked) + ": " + revoked.error().message +
                                    ": remove it, and the coordinator tells it again");
  }
  return revoked;
}

Status TrustFolder::SaveRevoked(const std::vector<Revocation>& revoked) const {
  const Result<std::string> before = ReadWholeFile(At(kRevoked));
  const std::string text = TextOf(revoked);
  return before.value_or("") == text ? Status() : Write(At(kRevoked), text);
}

Result<Authority> TrustFolder::LoadAuthority() const { return LoadAuthorityOf(At(kAuthorityKey)); }

bool TrustFolder::HoldsAuthority() const {
  struct stat key{};
  return stat(At(kAuthorityKey).c_str(), &key) == 0;
}

Result<Authority> TrustFolder::LoadNextAuthority() const { return LoadAuthorityOf(At(kNextKey)); }

Status TrustFolder::SaveNextAuthority(const Authority& next) const {
  return Write(At(kNextKey), next.key().ToPem().Reveal());
}

Status TrustFolder::SwitchAuthority() const { return CommitFile(At(kNextKey), At(kAuthorityKey)); }

Status TrustFolder::RemoveNextAuthority() const {
  if (unlink(At(kNextKey).c_str()) == 0 || errno == ENOENT) return {};
  return Fail(OfErrno(At(kNextKey)));
}

Result<Authority> TrustFolder::LoadAuthorityOf(const std::string& key_file) const {
  Result<std::vector<Certificate>> authorities = LoadAuthorities();
  if (!authorities) return Fail(authorities.error());
  Result<PrivateKey> key = LoadKey(key_file);
  if (!key) return Fail(key.error());
  for (Certificate& certificate : *authorities) {
    if (certificate.Fits(*key)) return Authority::Of(std::move(certificate), std::move(*key));
  }
  const bool is_next = key_file == At(kNextKey);
  return Fail(Code::kInvalid, key_file + " is the key of none of the authorities in " +
                                  At(kAuthorities) +
                                  (is_next ? ": remove it, and begin with the first step again"
                                           : ": put back the file that belongs to it"));
}

Status TrustFolder::SaveAuthority(const Authority& authority) const {
  Status made = MakePrivateFolder(path_);
  if (!made) return made;
  Status written = WriteFileAtomically(At(kAuthorityKey), authority.key().ToPem().Reveal());
  if (written) written = WriteFileAtomically(At(kAuthorities), authority.certificate().ToPem());
  return written;
}

Result<std::chrono::seconds> TrustFolder::MemberLifetime() const {
  const Result<std::string> text = ReadWholeFile(At(kLifetime));
  if (!text && text.error().code == Code::kNotFound) return std::chrono::seconds(kMemberLifetime);
  if (!text) return Fail(text.error());
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  const std::chrono::seconds lifetime(seconds);
  if (error != std::errc() || *end != '\n' || lifetime < kShortestMemberLifetime ||
      lifetime > kLongestMemberLifetime) {
    return Fail(Code::kInvalid, At(kLifetime) +
                                    " holds no time between a minute and 90 days: "
                                    "remove it, or see `forebay init "
                                    "--member-lifetime`");
  }
  return lifetime;
}

Status TrustFolder::SaveMemberLifetime(std::chrono::seconds lifetime) const {
  return Write(At(kLifetime), std::to_string(lifetime.count()) + "\n");
}

Status TrustFolder::NoteAction(const std::string& line) const {
  Result<std::vector<std::string>> lines = ReadActions();
  if (!lines) return Fail(lines.error());
  lines->push_back(line);
  if (lines->size() > kMostActions)
    lines->erase(lines->begin(), lines->end() - static_cast<std::ptrdiff_t>(kMostActions));
  std::string text;
  for (const std::string& each : *lines) text += each + "\n";
  return Write(At(kActions), text);
}

Status TrustFolder::TellActions(const std::function<void(const std::string&)>& tell) const {
  struct stat info{};
  if (stat(At(kActions).c_str(), &info) != 0 && errno == ENOENT) return {};
  const Result<FolderLock> lock = LockBy(LOCK_EX | LOCK_NB);
  if (!lock) return lock.error().code == Code::kOverloaded ? Status() : Fail(lock.error());
  const Result<std::vector<std::string>> lines = ReadActions();
  if (!lines) return Fail(lines.error());
  for (const std::string& line : *lines) tell(line);
  if (unlink(At(kActions).c_str()) != 0 && errno != ENOENT) return Fail(OfErrno(At(kActions)));
  return {};
}

Result<std::vector<std::string>> TrustFolder::ReadActions() const {
  const Result<std::string> text = ReadWholeFile(At(kActions));
  if (!text && text.error().code == Code::kNotFound) return std::vector<std::string>();
  if (!text) return Fail(text.error());
  std::vector<std::string> lines;
  std::istringstream in(*text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

}  // namespace forebay
