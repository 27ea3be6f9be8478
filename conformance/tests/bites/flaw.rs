//! The bugs that the suite has to find, each of a class that real systems had.

/// One bug of a [`Broken`](crate::broken::Broken) provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// There is none: what shows that a case fails for the bug and not for the wrapper.
    None,

    // The life cycle.
    ClosedStillAnswers,
    LostOnReopen,
    NamespacesAreShared,

    // Writing.
    BatchIsPartlyApplied,
    KeyIgnored,
    KeyReturnsFirstWhateverTheTrigger,
    UpdateOfUnknownSucceeds,
    UpdateMovesCreatedAt,
    MergeReplaces,
    ClearKeepsNull,
    EmptyContextIsAbsent,
    IfRevisionIgnored,
    RestoreMakesNewIds,

    // Reading.
    UnderIsRawPrefix,
    PrefixIsLike,
    PrefixIgnoresCase,
    GlobIsRegex,
    WithinIgnored,
    BeforeIsInclusive,
    LimitBeforeFilter,
    NumbersCompareAsText,
    LimitZeroIsNotSet,
    PagesEndAtTen,
    TiesInReverse,
    CursorForgetsTies,
    CursorIsAnOffset,
    ExcludeIgnored,
    StatusIgnoredInUnion,

    // Documents and text.
    PutIgnoresAbsent,
    PutMovesCreatedAt,
    PutKeepsTheSpace,
    RemoveIgnoresMax,
    RemoveTakesTen,
    RemoveTakesIdsByPrefix,
    RemoveLeavesText,
    EmptyCollectionsAreListed,
    TextNeedsEveryWord,
    UnsupportedTextFindsEverything,

    // The plugin.
    PluginForgetsReadableSpaces,
    PluginIgnoresDryRun,
}
